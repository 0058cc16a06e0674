//go:build linux

package hca

// The engine's state of each object. Nothing but the engine writes these fields, and only the trace reads them; the
// fabric's lock is held. What is "as last seen" is a copy of what the program wrote into its own memory.

// UARRun is the engine's state of a doorbell page.
type UARRun struct {
	Rung bool         // and its queues were not looked at
	Last [8][256]byte // strict mode: the WQE that was rung last on each slot
	Seen [8][256]byte // strict mode: what a look has left in a slot
	Stir [8]bool      // strict mode: a copy was under way when the slot was cleared, which may have erased a part of it
}

// QPRun is the engine's state of a QP. Indices run free; those of the send queue count 64-byte blocks.
type QPRun struct {
	// The requester.
	Tail      uint32 // next block to execute
	Announced uint32 // end of what a doorbell announced: the send doorbell record as last seen, extended to 32 bits
	Signaled  uint32 // end of the last WQE that gave a completion
	PSN       uint32 // of the next request
	Wait      uint8  // what the requester waits for; 0: nothing
	Tries     uint8  // of the WQE at Tail, without an answer
	RNRTries  uint8  // of the WQE at Tail, that found no receive
	Fault     uint8  // injected into the WQE at Tail
	Asked     bool   // Fault was asked for
	Count     uint64 // WQEs executed
	Reads     uint32 // READs and atomics since the queue was last empty, or fenced

	// The responder. The peer's requester advances EPSN and Head.
	EPSN    uint32 // expected
	Head    uint32 // next receive to use
	Swap    uint32 // Swapped: this receive and the one behind it are used in the other order
	Swapped bool
	Posted  uint32 // receives posted: the receive doorbell record as last seen, extended to 32 bits
	CommEst bool   // the event was given
	Stride  uint32 // of the receive at Head: the next one, with a striding WQ
	RQ      []byte // receive WQEs read ahead: RQLen of them from index RQFrom
	RQFrom  uint32
	RQLen   uint32

	Timer  uint32 // sequence number of the timer that counts
	Look   bool   // a doorbell was seen: read the record
	Lost   bool   // a doorbell was lost by injection
	Queued bool   // in the list of QPs that may have work
	Flush  bool   // to be flushed
	Erred  bool   // in the list of QPs in ERR
	Dead   bool   // destroyed
	Peer   *QP    // of a connected QP, as of Epoch
	Epoch  uint64

	BadStreams []uint16     // DCI: streams in error
	Rendezvous []Rendezvous // messages whose tag matched, to be read from the peer, in order

	Strict QPStrict
}

// QPStrict is what strict mode keeps of a QP.
type QPStrict struct {
	Hash      uint64 // of the WQE that is to be tried again; 0: none
	Moved     uint32 // a send doorbell record that moved without a doorbell, plus 1; 0: it did not
	MovedAt   int64  // when that was seen first; 0: reported
	ResetPost uint8  // looks in turn that found receives posted in RESET
	Blue      bool   // a register held a whole WQE since the last record
	Torn      uint64 // copies of which a part never came
	Ring      []byte // the send queue's blocks as they were executed last
}

// CQRun is the engine's state of a CQ.
type CQRun struct {
	PI      uint32 // next entry to write
	CI      uint32 // consumer index as last seen, extended to 32 bits
	LastSol uint32 // PI after the last solicited completion
	Told    uint32 // PI at the last event: what is below was announced
	Armed   bool
	SolOnly bool   // armed for solicited completions
	SN      uint8  // of the next arming, 2 bits
	LastArm uint32 // arm word as last seen
	ModN    uint32 // completions since the last event (moderation)
	Timer   uint32 // sequence number of the timer that counts
	Dead    bool   // destroyed, or its ring cannot be written: gets no completions
	Broken  bool   // in error: keeps what it has, and gets no more
	Held    bool   // completions are delayed
	Timed   bool   // the moderation timer runs

	Blocks []Block // strict mode: that were written and are not consumed, in order
}

// Block is completions that were written as one.
type Block struct{ At, Count uint32 }

// SRQRun is the engine's state of an SRQ.
type SRQRun struct {
	Next   uint32 // entry at the head of the list: links of entries that the program wrote lead to it
	Used   uint32 // receives consumed
	Posted uint32 // the doorbell record as last seen, extended to 32 bits
	Ring   []byte // entries read ahead: Valid of them from index From
	From   uint32
	Valid  uint32
	Left   uint32 // of the valid ones
	Armed  bool   // limit event
	Tags   TagRun
}

// Has reports whether an entry was read ahead.
func (r *SRQRun) Has(i uint32) bool { return i-r.From < r.Valid }

// Entry returns an entry that was read ahead.
func (r *SRQRun) Entry(i, shift uint32) []byte { return r.Ring[(i-r.From)<<shift:][:1<<shift] }

// KeyRun is the engine's state of a memory key (strict mode: the registered mapping's fingerprint).
type KeyRun struct {
	Print uint64
	At    int64 // when it was last compared
}

// EachCQ calls do for every CQ of the context.
func (c *Context) EachCQ(do func(*CQ)) {
	for _, cq := range c.Device.cqs {
		if cq != nil && cq.Context == c {
			do(cq)
		}
	}
}

// EachQP calls do for every QP of the device.
func (d *Device) EachQP(do func(*QP)) {
	for _, qp := range d.qps {
		if qp != nil {
			do(qp)
		}
	}
}

// KeyAt returns the key of an index, whatever its variant, or nil.
func (d *Device) KeyAt(index uint32) *MKey {
	if int64(index) < int64(len(d.keys)) {
		return d.keys[index]
	}
	return nil
}
