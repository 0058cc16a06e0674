// Package ops is the data path for any device. It calls the provider's functions by C function pointer, through the ops
// table of the ibv_context.
//
// A queue keeps a chain of C work requests outside the Go heap. Posting fills slots of it and makes one C call for all
// of them. Polling makes one C call for up to PollBatch completions. Nothing here allocates once a queue exists.
// Nothing here locks: the caller serialises the use of each queue.
package ops
