// Package uverbs gives the kernel commands for which a provider cannot be asked, because they concern what the direct
// data path has taken over from it, or because the provider would write(2) them to the device file.
//
// Linux refuses a write to an RDMA device file by a thread whose credentials are not those of the thread that opened it
// (Linux, include/rdma/ib.h, ib_safe_file_access). It compares struct creds by address. All threads of a process share
// one until setuid, setgid, setgroups, capset or a similar call gives each thread its own. The ioctl of the same files
// has no such rule. So commands are sent by the ioctl, and written only to a kernel that lacks it (before 5.0).
package uverbs
