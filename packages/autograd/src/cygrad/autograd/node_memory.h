/* Memory of nodes, which the garbage collector counts as one object in SHARE.

   Python's collector runs whenever 700 more objects are alive than when it last ran, and walks over all of them again
   each time they have grown by a quarter. A graph of 100,000 nodes is no garbage while it grows: counted singly, its
   nodes make the collector take several times as long as the operations. They stay tracked, so cycles through them are
   found whenever it runs.

   What is done here is what PyObject_GC_New and PyObject_GC_Del do, but for the count. */
#ifndef CYGRAD_NODE_MEMORY_H
#define CYGRAD_NODE_MEMORY_H

#define CYG_SHARE 64
#define CYG_COLLECTOR_HEAD (2 * sizeof(void *))           /* what lies in front of an object that the collector tracks */

static PyObject *cyg_node_alloc(PyTypeObject *type, Py_ssize_t n)
{
    static unsigned int made;
    char *p;
    if (made++ % CYG_SHARE == 0) return PyType_GenericAlloc(type, n);
    p = (char *)PyObject_Calloc(1, CYG_COLLECTOR_HEAD + (size_t)type->tp_basicsize);
    if (p == NULL) return PyErr_NoMemory();
    p += CYG_COLLECTOR_HEAD;
    PyObject_Init((PyObject *)p, type);
    PyObject_GC_Track(p);
    return (PyObject *)p;
}

static void cyg_node_free(void *node)
{
    PyObject_Free((char *)node - CYG_COLLECTOR_HEAD);
}

/* head: what Python says that it puts in front of objects. Where that is something else (threads without the GIL), or not
   known yet (a Python to come), nodes stay counted. */
static void cyg_set_node_memory(PyObject *type, Py_ssize_t head)
{
#if !defined(Py_GIL_DISABLED) && PY_VERSION_HEX < 0x030F0000
    if (head != (Py_ssize_t)CYG_COLLECTOR_HEAD) return;
    ((PyTypeObject *)type)->tp_alloc = cyg_node_alloc;
    ((PyTypeObject *)type)->tp_free = cyg_node_free;
#else
    (void)type; (void)head;
#endif
}
#endif
