package rdma

import "sync"

// messages are Message structs for reuse.
var messages = sync.Pool{New: func() any { return new(Message) }}
