//go:build linux

package hca

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
	Torn      uint64 // copies that never arrived in full
	Ring      []byte // the send queue's blocks as they were executed last
}
