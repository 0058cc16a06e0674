//go:build linux

package engine

// Names of the rules of strict mode that the engine checks, as [hca.Watcher.Violation] gets them: what a program did.
const (
	RuleWQEIndex = "wqe-index" // the index in a WQE's control segment is not its place in the send queue
	RuleWQEQPN   = "wqe-qpn"   // the QPN in a WQE's control segment is not the queue's own
	// a WQE's size is 0, over 63 sixteen-byte units, or reaches beyond what was posted
	RuleWQESize    = "wqe-size"
	RuleWQEOpcode  = "wqe-opcode"  // the opcode of a WQE is unknown, or not one of the QP's transport
	RuleWQEFormat  = "wqe-format"  // the segments of a WQE do not fit its size or its opcode
	RuleWQEInline  = "wqe-inline"  // a WQE carries more inline data than the device takes
	RuleWQEChanged = "wqe-changed" // the bytes of a WQE changed between its doorbell and its completion
	// the Ethernet segment of a WQE has bits that are no offload of the device, or a TSO WQE no header of Ethernet, IP
	// and TCP, or no segment size
	RuleEthSegment = "eth-segment"
	RuleEthInline  = "eth-inline" // a WQE carries less of its frame inline than the device wants
	// a frame is shorter than an Ethernet header, or longer than its port sends
	RuleFrameSize = "frame-size"
	// the send queue was filled around without a signaled WQE: no completion says that the reused entries are free
	RuleUnsignaled   = "sq-unsignaled"
	RuleSQAhead      = "sq-doorbell-record" // the send doorbell record moved by more than the send queue holds
	RuleSQNoDoorbell = "sq-no-doorbell"     // the send doorbell record moved but no doorbell was rung
	RuleSQNoRecord   = "sq-no-record"       // a doorbell was rung before the doorbell record covered its WQE
	RuleDoorbellQPN  = "doorbell-qpn"       // a doorbell page got a doorbell of a QP that does not belong to it
	RuleBlueFlame    = "blueflame-copy"     // the copy of a WQE in the BlueFlame register differs from the send queue
	RulePostState    = "post-state"         // work was posted to a queue whose QP is in a state that does not take it
	RuleRdAtomic     = "rd-atomic"          // more READs and atomics are outstanding than the peer has resources for
	// the receive doorbell record is further ahead than the receive queue holds
	RuleRQAhead  = "rq-doorbell-record"
	RuleRQNoRoom = "rq-cq-room" // more receives are posted than their CQ has entries
	// a receive of an SRQ has a data segment of no bytes before the end of its list
	RuleSRQEmpty   = "srq-empty-segment"
	RuleMRUnmapped = "mr-unmapped" // memory of a region was not mapped any more when the device used it
	// memory of a region is another mapping than the one that was registered: hardware would use the old pages
	RuleMRRemapped = "mr-remapped"
	RuleCQConsumer = "cq-consumer-index" // the consumer index of a CQ passed what was produced
	RuleCQOverrun  = "cq-overrun"        // a completion found its CQ full
	// an entry of a block of compressed completions was given back so that it passes for a new one on the next lap
	RuleCQBlock = "cq-block"
	// a CQ was armed with a sequence number that is neither the next nor the last one
	RuleCQArmSequence = "cq-arm-sequence"
	RuleRingUnmapped  = "ring-unmapped" // a ring or doorbell record could not be read or written
	RuleTagCount      = "tag-count"     // a program handled more unexpected messages than there were
	// a tag is added to a place of its list that is taken, or that does not exist
	RuleTagList = "tag-list"
)
