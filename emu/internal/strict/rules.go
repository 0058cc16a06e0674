package strict

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rule is one thing that a program must not do.
type Rule struct {
	Name    string
	Silicon string // what an adapter does then
	Look    string // where the mistake is likely to be
}

// Rules is all rules: those that the engine checks, and those of the device model.
var Rules = []Rule{
	{"wqe-index", "executes it all the same; the completion names the wrong work request",
		"the index in the control segment: it counts 64-byte blocks modulo 2^16, not work requests"},
	{"wqe-qpn", "completes with a local QP operation error, or works for another queue",
		"the QPN in the control segment; two threads that post to one queue"},
	{"wqe-size", "completes with a local QP operation error, or takes stale segments for its own",
		"ds in the control segment: 16-byte units, the control segment among them, at most 63"},
	{"wqe-opcode", "completes with a local QP operation error",
		"the opcode in the control segment, and what the QP's transport allows"},
	{"wqe-format", "completes with a local QP operation error, or reads an address out of other data",
		"which segments the opcode wants, their order, and the wrap at the end of the ring"},
	{"wqe-inline", "completes with a local QP operation error",
		"what the QP was granted of max_inline_data, which may be less than was asked for"},
	{"wqe-changed", "may have fetched either version",
		"no entry may be written again before a completion said that it is free"},
	{"eth-segment", "takes them for another offload; a TSO WQE completes with a local QP operation error",
		"the bytes of the Ethernet segment: zero it first; TSO wants all headers inline"},
	{"eth-inline", "completes with a local QP operation error: its steering sees no headers",
		"inline_hdr_sz, where the device's minimum is 18 bytes"},
	{"frame-size", "completes with an error if it is too short, drops it if it is too long",
		"the MTU of the port's netdev, with 14 bytes of header and 4 of a VLAN tag"},
	{"sq-unsignaled", "goes on, over entries that nobody knows to be free",
		"ask for a completion at least once each time around, and count unsignaled entries as taken"},
	{"sq-doorbell-record", "executes stale entries of the ring as if they were posted",
		"the send counter: blocks, modulo 2^16, written after the WQEs; zeroed only in RESET"},
	{"sq-no-doorbell", "does nothing until the next doorbell: a hang that looks like a slow peer",
		"each move of the record is followed by a store to the doorbell register"},
	{"sq-no-record", "may not see the last WQEs",
		"the order: WQE, barrier, doorbell record, barrier, doorbell register"},
	{"doorbell-qpn", "ignores it, or raises an error for the page's owner",
		"the first 8 bytes of the last control segment go to the QP's own page"},
	{"blueflame-copy", "executes the copy in the register, not the ring",
		"copy the WQE when it is complete, in 64-byte blocks, with the wrap at the end of the ring"},
	{"post-state", "flushes it, drops it, or never looks at it",
		"sends are for RTS, receives for INIT and later; who moved the QP to ERR?"},
	{"rd-atomic", "answers with a NAK for an invalid request; both queue pairs move to ERR",
		"max_rd_atomic of one end is at most max_dest_rd_atomic of the other"},
	{"rq-doorbell-record", "uses old entries as if they were new receives",
		"the receive counter counts what was posted, modulo 2^16; count what is outstanding"},
	{"rq-cq-room", "breaks the CQ if all of them complete before it is polled",
		"a CQ holds all work requests of its queues that may complete between two polls"},
	{"srq-empty-segment", "takes it for 2 GiB, and writes past the program's buffer",
		"leave SGEs of length 0 out: a segment's length is 31 bits, and 0 stands for 2^31"},
	{"mr-unmapped", "reads and writes pages that the program has given back",
		"memory was unmapped before its region was deregistered"},
	{"mr-remapped", "reads and writes the old pages: the program sees none of it",
		"memory was mapped anew, moved, or copied on write after a fork"},
	{"cq-consumer-index", "takes the CQ for emptier than it is, and overwrites completions",
		"the consumer index grows by what was polled, modulo 2^24"},
	{"cq-overrun", "breaks the CQ: CQ_ERR event, and all its QPs stop",
		"a CQ holds all work requests of its queues that may complete between two polls"},
	{"cq-block", "nothing; the program takes the old entry for a completion when it comes to it again",
		"each entry of a block gets the owner bit of its lap, or becomes invalid (0xf0), before the consumer index " +
			"passes it"},
	{"cq-arm-sequence", "ignores the request: the event never comes",
		"the sequence number goes up by one for each event that was fetched, modulo 4"},
	{"ring-unmapped", "reads and writes pages that the program has given back",
		"a ring or a doorbell record was unmapped before its queue was destroyed"},
	{"tag-count", "does not match the tags that were added since, or matches them too early",
		"Unexpected counts what completed as a TM receive without a match, not messages without a tag"},
	{"tag-list", "fails the operation, or loses a tag",
		"a tag is deleted once, and only before the completion of its match was polled"},
	{"uverbs-write", "nothing: the kernel refuses it with abi=ioctl and abi=sandbox",
		"a command for which the program does not try the ioctl first, or gives up on it too early"},
	{"leak", "nothing: the kernel cleans up at exit; a program that runs on loses memory and handles",
		"destroy what was created, children first"},
	{"event-unacked", "nothing; destroying the object waits for ever in the library",
		"acknowledge each event that was fetched"},
}

// Known reports whether a rule of that name exists.
func Known(name string) bool { return find(name) != nil }

func find(name string) *Rule {
	if i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name }); i >= 0 {
		return &Rules[i]
	}
	return nil
}

// List prints all rules.
func List(w io.Writer) error {
	var b strings.Builder
	for _, r := range Rules {
		fmt.Fprintf(&b, "%s\n    an adapter: %s\n    look at:    %s\n", r.Name, r.Silicon, r.Look)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
