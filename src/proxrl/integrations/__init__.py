"""The proximal term in other libraries: one module each, imported only on request."""
