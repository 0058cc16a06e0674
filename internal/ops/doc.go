// Package ops is the data path for any device: the provider's own functions,
// reached through the ops table of its ibv_context by C function pointer.
//
// A queue keeps a chain of C work requests in memory outside of the Go heap,
// linked once when the queue is made. Posting fills slots and makes one C call
// for the whole batch; polling makes one C call for up to a page of
// completions. Nothing here allocates once a queue exists, and nothing here
// locks: the owner of a queue serialises its use.
package ops
