"""The proximal term inside other libraries: one module each, imported only when asked for."""
