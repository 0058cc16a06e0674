// Package sendq is the sending side of a connection: what is due and in which order it is sent, the frames that are
// staged, the work requests that are under way, and the goroutines that wait for their completion. It decides and keeps
// account. It posts nothing and knows no device.
//
// A [Queue] takes four kinds of work: frames without content ([Queue.SetDue]), data frames ([Queue.Stage]), frames
// about leases ([Queue.Tell]), and operations ([Queue.Submit]), which are lists of work requests that complete
// together. Its user posts as follows:
//
//	q.Begin(gates)
//	for {
//		what := q.Pick()
//		if what == sendq.None {
//			break
//		}
//		q.Add(what, header)
//	}
//	post(q.Doorbell())
//	for _, h := range q.Inlined() { … } // return memory that was sent inline
//
// and handles a completion as follows:
//
//	for h, ok := q.Release(upTo, okUpTo); ok; h, ok = q.Release(upTo, okUpTo) { … } // return its memory
//	for o := q.Finished(); o != nil; o = q.Finished() { … }
//	q.Confirm() // of a success
//
// The memory of a data frame is a value of type H, which the queue does not inspect. The zero value means no memory.
// Every other value that was staged is returned exactly once: by Release, Inlined, TakeBack or DropStaged.
package sendq
