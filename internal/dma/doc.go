// Package dma makes memory that devices may read and write.
//
// Such memory is outside the Go heap: the garbage collector neither moves nor frees it; only Free
// does. It starts at a page boundary, is zeroed, and shares its pages with nothing else. An
// inaccessible guard page on each side stops code, C or Go, that runs over an end.
//
// The memory is not inherited by fork. Otherwise a child that C code forks would make the kernel
// copy pages that a device writes to.
//
// The package also pins memory of the Go heap that devices use.
package dma
