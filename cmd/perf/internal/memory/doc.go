// Package memory provides the memory for the messages of a test: memory of this process, a file, memory of the RDMA
// device or of a GPU. One interface hides their differences: register, copy in and out, free.
package memory
