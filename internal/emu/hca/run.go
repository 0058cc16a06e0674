//go:build linux

package hca

// The engine's own state of each object; nothing but the engine touches it. The fields are the engine's to define.

// UARRun is the engine's state of a doorbell page.
type UARRun struct {
	Last [8][256]byte // strict mode: the WQE that was rung last on each slot
}

// QPRun is the engine's state of a QP. Indices run free; those of the send queue count 64-byte blocks.
type QPRun struct {
	// requester
	Tail      uint32 // next block to execute
	Announced uint32 // end of what a doorbell announced
	Signaled  uint32 // end of the last WQE that gave a completion
	PSN       uint32 // of the next request
	Wait      uint8  // what the requester waits for; 0 = nothing
	Tries     uint8  // without answer
	RNRTries  uint8
	Fault     uint8  // injected into the WQE at Tail
	Asked     bool   // Fault was asked for
	Count     uint64 // WQEs executed
	Hash      uint64 // of the WQE that waits (strict mode)
	Unrung    uint32 // strict mode: a record that moved, and
	UnrungAt  int64  // since when; 0 = it did not
	ResetPost uint8
	Blue      bool   // strict mode: a register held a whole WQE since the last record
	Torn      uint64 // strict mode: copies of which a part never came

	// responder
	EPSN    uint32 // expected
	Head    uint32 // next receive to use
	Posted  uint32 // receives posted, as last seen
	CommEst bool   // the event was given
	RQ      []byte // receive WQEs read ahead: RQLen of them from index RQFrom
	RQFrom  uint32
	RQLen   uint32

	Timer  uint32 // sequence number of the timer that counts
	Look   bool   // a doorbell was rung: read the record
	Lost   bool   // a doorbell was lost by injection
	Queued bool   // in the list of QPs that may have work
	Flush  bool   // to be flushed
	Drain  bool   // SQ_DRAINED to be told
	Erred  bool   // in the list of QPs in ERR
	Dead   bool
	Peer   *QP // of a connected QP, as of Epoch
	Epoch  uint64
}

// CQRun is the engine's state of a CQ.
type CQRun struct {
	PI       uint32 // next entry to write
	CI       uint32 // consumer index as last read, extended to 32 bits
	LastSol  uint32 // PI after the last solicited completion
	Told     uint32 // PI at the last event: what is below was announced
	Armed    bool
	SolOnly  bool
	SN       uint8  // of the next arming, 2 bits
	LastArm  uint32 // arm word as last seen
	ModN     uint32 // completions since the last event (moderation)
	Timer    uint32
	Dead     bool
	Held     bool // completions are delayed
	Timed    bool // the moderation timer runs
	Notify   bool // in the list of events to send
	Checking bool
}

// SRQRun is the engine's state of an SRQ.
type SRQRun struct {
	Next   uint32 // entry at the head of the list
	Used   uint32 // receives consumed
	Posted uint32 // as last seen
	Ring   []byte // entries read ahead: Valid of them from index From
	From   uint32
	Valid  uint32
	Left   uint32 // of the valid ones
	Armed  bool   // limit event
}

// Has tells if an entry was read ahead.
func (r *SRQRun) Has(i uint32) bool { return i-r.From < r.Valid }

// Entry is an entry that was read ahead.
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

// KeyAt is the key of an index, whatever its variant, or nil.
func (d *Device) KeyAt(index uint32) *MKey {
	if int64(index) < int64(len(d.keys)) {
		return d.keys[index]
	}
	return nil
}
