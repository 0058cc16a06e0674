package datagram

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
)

const (
	Recvs = 128 // receives of a socket
	Sends = 32

	repost = 16 // most receives that are posted at a time
)

// IDs of a socket's work requests: idBit, the socket's number, idSend, and the slot.
const (
	idBit   = 1 << 62
	indexAt = 40
	idSend  = 1 << 32

	// Sockets is how many an engine can have.
	Sockets = 256
)

// Socket returns the number of the socket that a completion is for, and reports whether it is one of a socket.
func Socket(wc *ibv.WC) (index int, ok bool) {
	return int(wc.ID >> indexAt % Sockets), wc.ID&idBit != 0
}

// Stride is the space of a datagram: its header ends where the payload begins, at a line of the cache.
func Stride(mtu int) int { return blocks.Headroom + mtu }

// slot is a registered piece of a block for one datagram.
type slot struct {
	mem  []byte // header and payload
	sge  ibv.SGE
	peer *Peer // of a send under way
}

// Counts are the counters of Slots.
type Counts struct{ Sent, Received, Dropped, Full uint64 }

// Slots are the datagrams in memory, and the work requests for them.
type Slots struct {
	blocks       []*blocks.Block
	Index        int // number of the socket
	recvs, sends []slot
	unread       fifo.Queue[ibv.WC] // received and not taken
	unposted     []uint32           // receives
	free         []uint32           // sends
	outstanding  int                // work requests
	recvWR       [repost]ibv.RecvWR
	recvSGE      [repost]ibv.SGE
	sendWR       [1]ibv.SendWR
	sendSGE      [1]ibv.SGE
	Counts       Counts
}

// BlocksFor returns how many blocks of a length the slots of a socket take.
func BlocksFor(blockLen, mtu int) int {
	perBlock := blockLen / Stride(mtu)
	return (Recvs + Sends + perBlock - 1) / perBlock
}

// Cut makes the slots of the socket with this number. They keep the blocks.
func (s *Slots) Cut(index int, list []*blocks.Block, mtu int) {
	s.Index, s.blocks = index, list
	s.unread.Reserve(Recvs)
	stride := Stride(mtu)
	var slots []slot
	for _, b := range list {
		for at := 0; at+stride <= len(b.Mem); at += stride {
			begin, end := at+blocks.Headroom-GRHLen, at+stride
			slots = append(slots, slot{mem: b.Mem[begin:end:end], sge: ibv.SGE{
				Addr: b.Addr + uint64(begin), Length: uint32(end - begin), LKey: b.LKey}})
		}
	}
	s.recvs, s.sends = slots[:Recvs:Recvs], slots[Recvs:Recvs+Sends]
}

// Uncut returns the blocks, nil if there are none. The slots must not be used any more.
func (s *Slots) Uncut() []*blocks.Block {
	list := s.blocks
	s.blocks = nil
	return list
}

// Limit makes all slots free, as many as the queue pair has work requests.
func (s *Slots) Limit(recvs, sends int) {
	s.recvs, s.sends = s.recvs[:recvs], s.sends[:sends]
	for i := range s.recvs {
		s.unposted = append(s.unposted, uint32(i))
	}
	for i := range s.sends {
		s.free = append(s.free, uint32(i))
	}
}

// Receives returns how many datagrams can be kept.
func (s *Slots) Receives() int { return len(s.recvs) }

// Unread returns how many datagrams were received and not taken.
func (s *Slots) Unread() int { return s.unread.Len() }

// AllSent reports whether nothing that was sent is under way.
func (s *Slots) AllSent() bool { return len(s.free) == len(s.sends) }

// AtRest reports whether no work request is under way.
func (s *Slots) AtRest() bool { return s.outstanding == 0 }

func (s *Slots) id(kind uint64, slot uint32) uint64 {
	return idBit | uint64(s.Index)<<indexAt | kind | uint64(slot)
}

// Post posts receives.
func (s *Slots) Post(qp *ibv.QP) error {
	for len(s.unposted) > 0 {
		n := min(len(s.unposted), repost)
		list := s.unposted[len(s.unposted)-n:]
		for i, slot := range list {
			s.recvSGE[i] = s.recvs[slot].sge
			s.recvWR[i] = ibv.RecvWR{ID: s.id(0, slot), SGEs: s.recvSGE[i : i+1 : i+1]}
		}
		done, err := qp.PostRecv(s.recvWR[:n])
		s.outstanding += done
		s.unposted = append(s.unposted[:len(s.unposted)-n], list[done:]...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Take returns the completion and the memory of the next datagram that was received. The memory is the caller's until
// GiveBack.
func (s *Slots) Take() (wc ibv.WC, mem []byte) {
	wc = s.unread.Pop()
	return wc, s.recvs[uint32(wc.ID)].mem
}

// GiveBack gives the memory of a datagram back. ours reports whether the program has read it. It reports whether
// receives are to be posted.
func (s *Slots) GiveBack(wc *ibv.WC, ours bool) (post bool) {
	if ours {
		s.Counts.Received++
	} else {
		s.Counts.Dropped++
	}
	s.unposted = append(s.unposted, uint32(wc.ID))
	return len(s.unposted) == repost || s.unread.Len() == 0
}

// MaySend reports whether a slot is free to send from.
func (s *Slots) MaySend() bool { return len(s.free) > 0 }

// TakeSend returns a slot to send from, and its memory for the payload. One must be free.
func (s *Slots) TakeSend() (slot uint32, payload []byte) {
	last := len(s.free) - 1
	slot = s.free[last]
	s.free = s.free[:last]
	return slot, s.sends[slot].mem[GRHLen:]
}

// Unsent gives a slot back from which nothing was sent.
func (s *Slots) Unsent(slot uint32) { s.free = append(s.free, slot) }

// Send sends n bytes of a slot to a peer, which is held until they have been sent.
func (s *Slots) Send(qp *ibv.QP, slot uint32, n int, imm uint32, to *Peer, qkey uint32) error {
	from := &s.sends[slot]
	s.sendSGE[0] = ibv.SGE{Addr: from.sge.Addr + GRHLen, Length: uint32(n), LKey: from.sge.LKey}
	s.sendWR[0] = ibv.SendWR{ID: s.id(idSend, slot), Opcode: ibv.OpSendImm, Flags: ibv.Signaled,
		Imm: imm, SGEs: s.sendSGE[:1], AH: to.AH, RemoteQPN: to.Addr.QPN, RemoteQKey: qkey}
	if _, err := qp.PostSend(s.sendWR[:]); err != nil {
		return err
	}
	from.peer = to
	s.outstanding++
	s.Counts.Sent++
	return nil
}

// Complete handles a completion. It reports whether a datagram was sent, or has come.
func (s *Slots) Complete(wc *ibv.WC) (sent, came bool) {
	s.outstanding--
	slot := uint32(wc.ID)
	switch {
	case wc.ID&idSend != 0:
		s.sends[slot].peer.Drop()
		s.sends[slot].peer = nil
		s.free = append(s.free, slot)
		return true, false
	case wc.Status == ibv.WCSuccess && wc.ByteLen >= GRHLen:
		if s.unread.Push(*wc); s.unread.Len() == len(s.recvs) {
			s.Counts.Full++
		}
		return false, true
	}
	s.unposted = append(s.unposted, slot)
	return false, false
}
