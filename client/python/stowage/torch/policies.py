"""Policies of selective checkpointing that are in use, by name: whose results a layer keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_mm", "_grouped_mm"})
_ATTENTIONS = ("_scaled_dot_product", "_flash_attention", "_efficient_attention", "flex_attention")


def _is_product(name: str) -> bool:
    return name in _PRODUCTS


def _is_attention(name: str) -> bool:
    return name.startswith(_ATTENTIONS)


def _every_second_product(names: Sequence[str]) -> bool:
    """As torchtitan's setting `op` does by default."""
    if not _is_product(names[-1]):
        return _is_attention(names[-1])
    return sum(map(_is_product, names)) % 2 == 1


def _attention_and_its_product(names: Sequence[str]) -> bool:
    """Also the first product behind an attention."""
    if not _is_product(names[-1]):
        return _is_attention(names[-1])
    for name in reversed(names[:-1]):
        if _is_attention(name) or _is_product(name):
            return _is_attention(name)
    return False


# Of the names of all operators that a layer has called so far, whether the results of the last one
# are kept.
POLICIES: dict[str, Callable[[Sequence[str]], bool]] = {
    "products and attention": lambda names: _is_product(names[-1]) or _is_attention(names[-1]),
    "attention and every second product": _every_second_product,
    "attention and its output product": _attention_and_its_product,
    "attention": lambda names: _is_attention(names[-1]),
}


def policies_of(selective: object) -> tuple[str, ...]:
    """The policies that `fit` is limited to; none: it finds ways of its own, or none at all.

    Raises `ValueError` for a name that there is not.
    """
    if not isinstance(selective, Iterable):
        return ()
    names = [selective] if isinstance(selective, str) else list(selective)
    for name in names:
        if not isinstance(name, str) or name not in POLICIES:
            known = ", ".join(map(repr, POLICIES))
            raise ValueError(f"selective: is {name!r}; pass True, False, or some of {known}")
    return tuple(dict.fromkeys(names))


def kept_by(policy: str, names: Sequence[str]) -> set[int]:
    """The numbers of the operators, of these names, whose results the policy keeps."""
    keeps = POLICIES[policy]
    return {number for number in range(len(names)) if keeps(names[: number + 1])}
