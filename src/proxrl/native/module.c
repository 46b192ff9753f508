/* An empty Python module, so that the functions are built, found and installed as one; they are
   called by address (library.py). */

#include <Python.h>

#define STRING(name) #name
#define NAME(name) STRING(name)
#define JOINED(start, name) start##name
#define INIT(name) JOINED(PyInit_, name)

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = NAME(MODULE), .m_size = 0};

PyMODINIT_FUNC INIT(MODULE)(void)
{
    return PyModuleDef_Init(&module);
}
