//go:build linux

package engine

// Rule is a rule of strict mode; Name is what [hca.Watcher.Violation] gets.
type Rule struct{ Name, Text string }

// Names of the rules of strict mode.
const (
	RuleWQEIndex      = "wqe-index"
	RuleWQEQPN        = "wqe-qpn"
	RuleWQESize       = "wqe-size"
	RuleWQEOpcode     = "wqe-opcode"
	RuleWQEFormat     = "wqe-format"
	RuleWQEInline     = "wqe-inline"
	RuleWQEChanged    = "wqe-changed"
	RuleEthSegment    = "eth-segment"
	RuleEthInline     = "eth-inline"
	RuleFrameSize     = "frame-size"
	RuleUnsignaled    = "sq-unsignaled"
	RuleSQAhead       = "sq-doorbell-record"
	RuleSQNoDoorbell  = "sq-no-doorbell"
	RuleSQNoRecord    = "sq-no-record"
	RuleDoorbellQPN   = "doorbell-qpn"
	RuleBlueFlame     = "blueflame-copy"
	RulePostState     = "post-state"
	RuleRdAtomic      = "rd-atomic"
	RuleRQAhead       = "rq-doorbell-record"
	RuleRQNoRoom      = "rq-cq-room"
	RuleSRQEmpty      = "srq-empty-segment"
	RuleMRUnmapped    = "mr-unmapped"
	RuleMRRemapped    = "mr-remapped"
	RuleCQConsumer    = "cq-consumer-index"
	RuleCQOverrun     = "cq-overrun"
	RuleCQBlock       = "cq-block"
	RuleCQArmSequence = "cq-arm-sequence"
	RuleRingUnmapped  = "ring-unmapped"
	RuleTagCount      = "tag-count"
	RuleTagList       = "tag-list"
)

// Rules lists the rules, for documentation and for switching them.
var Rules = []Rule{
	{RuleWQEIndex, "the index in a WQE's control segment is not its place in the send queue"},
	{RuleWQEQPN, "the QPN in a WQE's control segment is not the queue's own"},
	{RuleWQESize, "a WQE's size is 0, over 63 sixteen-byte units, or reaches beyond what was posted"},
	{RuleWQEOpcode, "the opcode of a WQE is unknown, or not one of the QP's transport"},
	{RuleWQEFormat, "the segments of a WQE do not fit its size or its opcode"},
	{RuleWQEInline, "a WQE carries more inline data than the device takes"},
	{RuleWQEChanged, "the bytes of a WQE changed between its doorbell and its completion"},
	{RuleEthSegment,
		"the Ethernet segment of a WQE has bits that are no offload of the device, or a TSO WQE no header " +
			"of Ethernet, IP and TCP, or no segment size"},
	{RuleEthInline, "a WQE carries less of its frame inline than the device wants"},
	{RuleFrameSize, "a frame is shorter than an Ethernet header, or longer than its port sends"},
	{RuleUnsignaled, "the send queue was filled around without a signaled WQE: no completion says that the reused " +
		"entries are free"},
	{RuleSQAhead, "the send doorbell record moved by more than the send queue holds"},
	{RuleSQNoDoorbell, "the send doorbell record moved but no doorbell was rung"},
	{RuleSQNoRecord, "a doorbell was rung before the doorbell record covered its WQE"},
	{RuleDoorbellQPN, "a doorbell page got a doorbell of a QP that does not belong to it"},
	{RuleBlueFlame, "the copy of a WQE in the BlueFlame register differs from the send queue"},
	{RulePostState, "work was posted to a queue whose QP is in a state that does not take it"},
	{RuleRdAtomic, "more READs and atomics are outstanding than the peer has resources for"},
	{RuleRQAhead, "the receive doorbell record is further ahead than the receive queue holds"},
	{RuleRQNoRoom, "more receives are posted than their CQ has entries"},
	{RuleSRQEmpty, "a receive of an SRQ has a data segment of no bytes before the end of its list"},
	{RuleMRUnmapped, "memory of a region was not mapped any more when the device used it"},
	{RuleMRRemapped, "memory of a region is another mapping than the one that was registered: hardware would use the " +
		"old pages"},
	{RuleCQConsumer, "the consumer index of a CQ passed what was produced"},
	{RuleCQOverrun, "a completion found its CQ full"},
	{RuleCQBlock, "an entry of a block of compressed completions was given back so that it passes for a new one on " +
		"the next lap"},
	{RuleCQArmSequence, "a CQ was armed with a sequence number that is neither the next nor the last one"},
	{RuleRingUnmapped, "a ring or doorbell record could not be read or written"},
	{RuleTagCount, "a program handled more unexpected messages than there were"},
	{RuleTagList, "a tag is added to a place of its list that is taken, or that does not exist"},
}
