// Package engine executes work requests: it watches the doorbell pages, reads WQEs and payloads from the memory of the
// programs, carries messages between queue pairs as the transports of InfiniBand do, and writes completions.
//
// It is one loop on one thread ([Engine.Run]). Each turn holds the fabric's lock for a bounded amount of work; nothing
// is held while it sleeps.
package engine
