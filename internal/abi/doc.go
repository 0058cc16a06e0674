// Package abi mirrors the C structs and constants of libibverbs.
//
// Constants keep their C names; structs and their fields have Go names. All structs are those of rdma-core v65, the
// newest known. Releases have only appended fields, so older libraries read and write a prefix of these structs. Pass
// zeroed memory and, if the call takes one, the size.
//
// Sizes and offsets are asserted at compile time, and by tests against the
// headers of several releases on amd64 and arm64, and against the headers of
// this machine.
//
// Objects that embed a pthread_mutex_t end at it here: the mutex is 40 bytes on amd64 but 48 on
// arm64 with glibc (and 40 again with musl), which moves the fields after it. TailShift returns the
// difference at run time.
package abi

//go:generate go run ./gen
