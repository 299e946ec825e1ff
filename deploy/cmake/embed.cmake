# stowage_embed(TARGET FILE NAME): the bytes of a file in the program, as
#   extern const unsigned char NAME[]; extern const unsigned long NAME_size;
# of namespace stowage. A generated source: compiler caches do not see what .incbin reads, and GCC 12
# has no #embed.
set(stowage_embed_script ${CMAKE_CURRENT_LIST_FILE})
function(stowage_embed target file name)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D file=${file} -D name=${name} -D source=${source}
            -P ${stowage_embed_script}
    DEPENDS ${file} ${stowage_embed_script})
  target_sources(${target} PRIVATE ${source})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  # No line of a megabyte: compilers' errors would print it.
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  file(WRITE ${source} "namespace stowage {
extern const unsigned char ${name}[];
extern const unsigned long ${name}_size;
const unsigned char ${name}[] = {\n${bytes}0};
const unsigned long ${name}_size = sizeof(${name}) - 1;
}  // namespace stowage\n")
endif()
