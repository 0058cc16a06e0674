// Package usercm has the commands of rdma_cm's device file. A program writes them to the file, and the kernel stores
// the response at an address in the command. C: rdma/rdma_user_cm.h.
//
// It also knows which thread may write. Linux refuses a write to an RDMA device file by a thread whose credentials are
// not those of the thread that opened it (see package uverbs), and rdma_cm has no ioctl. So once a write was refused, a
// file is opened on an OS thread of its own, on which all its commands are then written. A process that never changes
// its credentials has no such thread.
package usercm
