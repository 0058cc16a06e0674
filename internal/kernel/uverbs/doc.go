// Package uverbs speaks to the device file of an RDMA device: it opens /dev/infiniband/uverbsN, sends the kernel's
// commands, and checks the answers. A driver's part of a command is bytes, but for commands to devices
// that a library has opened.
//
// A command has up to three forms: a method of an object, given by the ioctl; INVOKE_WRITE, which is the ioctl too, and
// carries the struct of a write; and the write. A File sends the first one that the kernel has. Linux refuses a write
// by a thread whose credentials are not those of the thread that opened the file. The ioctl has no such rule, so
// nothing is written to a kernel that has it.
//
// Requests and answers are in Go's heap, which does not move. The caller's structs have no pointers, and stay reachable
// until the command has returned.
package uverbs
