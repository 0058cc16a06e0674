// Package cuda has the calls of NVIDIA's driver library that put a GPU's memory within reach of an RDMA device. The
// library is opened when it is first needed. This has not run on a GPU yet: it was tested with a library that behaves
// as the documentation says.
//
// What it has to know of C is below; CUDA's driver API keeps a function's signature for good, and gives a new one a
// suffix, as in cuMemAlloc_v2.
package cuda
