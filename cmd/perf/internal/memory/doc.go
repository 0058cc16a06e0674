// Package memory is where the messages of a test stand: memory of this process, a file, memory of the RDMA device or
// of a GPU. What differs between them is behind one interface, of register, copying in and out, and free.
package memory
