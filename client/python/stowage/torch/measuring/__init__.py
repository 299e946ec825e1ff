"""Steps that are run and measured, and leave the model as it was."""
