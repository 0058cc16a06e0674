// Package dma makes memory that devices may read and write.
//
// Such memory lies off the Go heap: the garbage collector does not know it,
// nothing moves it, and it is gone when Free says so and not before. It starts
// at a page boundary, is zeroed, shares its pages with nothing else, and is
// fenced by a page on each side whose touch is a fault: code, C or Go, that runs
// over the end stops there.
//
// The memory is not inherited by fork: a child made by C code of the process
// would otherwise make the kernel copy pages that a device writes to.
//
// Memory of the Go heap that devices use is pinned here, too.
package dma
