package sendq

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// MayStage reports whether there is room for another data frame.
func (q *Queue[H, O]) MayStage() bool { return q.data.frames.Len() < q.data.room() }

// Staged returns how many data frames are staged.
func (q *Queue[H, O]) Staged() int { return q.data.frames.Len() }

// Credits returns how many credits the staged frames need, and the notes that follow from operations.
func (q *Queue[H, O]) Credits() int { return q.data.frames.Len() + len(q.data.notes) + q.data.coming }

// Stage stages a data frame, and reports whether it is time to post. The frames of a message come one after another,
// all but the last with MORE.
func (q *Queue[H, O]) Stage(f Frame[H]) (now bool) {
	s := &q.data
	s.frames.Push(f)
	if f.Flags&wire.FlagMore != 0 {
		s.part++
	} else {
		s.close()
	}
	q.due |= Data.bit()
	return !s.held || s.frames.Len() >= Batch
}

// Note stages a message of one frame behind the message that is being staged, whether there is room or not. It reports
// whether it will be sent: after a FIN nothing is.
func (q *Queue[H, O]) Note(f Frame[H]) bool {
	s := &q.data
	switch {
	case q.Ending():
		return false
	case s.part > 0:
		s.notes = append(s.notes, f)
	default:
		s.frames.Push(f)
		q.due |= Data.bit()
	}
	return true
}

// TakeBack takes back a frame of the message that is staged in part, the last one first. It ends with ok false, and the
// message is forgotten. If some of it was posted, the peer is asked to drop it.
func (q *Queue[H, O]) TakeBack() (f Frame[H], ok bool) {
	s := &q.data
	switch {
	case s.part == 0:
	case s.frames.Len() > 0:
		s.part--
		f, ok = s.frames.PopLast(), true
	default:
		s.frames.Push(Frame[H]{Flags: wire.FlagCancel})
	}
	if !ok {
		s.close()
	}
	q.SetDue(Data, s.frames.Len() > 0)
	return f, ok
}

// DropStaged takes back a data frame that was not posted. It ends with ok false.
func (q *Queue[H, O]) DropStaged() (f Frame[H], ok bool) {
	s := &q.data
	if s.frames.Len() == 0 {
		s.close()
	}
	if ok = s.frames.Len() > 0; ok {
		f = s.frames.Pop()
		q.lost.add(f.N, partOf(f.Flags))
	}
	q.SetDue(Data, s.frames.Len() > 0)
	return f, ok
}

// Fill appends bytes to the last staged frame, up to most bytes of payload, and returns how many.
func (q *Queue[H, O]) Fill(p []byte, most int) int {
	if q.data.frames.Len() == 0 {
		return 0
	}
	f := q.data.frames.Last()
	if f.Mem == nil || f.Tail.Length > 0 {
		return 0
	}
	n := copy(f.Mem[headroom+int(f.N):min(headroom+most, len(f.Mem))], p)
	f.N += int32(n)
	return n
}

// Pack appends a message to the last staged frame, which has at most most bytes of payload, and reports whether it
// could. The first record begins in the headroom, so that its message stays where it is.
func (q *Queue[H, O]) Pack(p []byte, flags uint8, imm uint32, most int) bool {
	if q.data.frames.Len() == 0 {
		return false
	}
	f := q.data.frames.Last()
	used := int(f.N)
	if f.Flags&wire.FlagPacked == 0 {
		used = wire.RecordSize(used)
	}
	if !f.Alone || used+wire.RecordSize(len(p)) > min(most, len(f.Mem)-headroom) {
		return false
	}
	mem := f.Mem[headroom-wire.RecordLen:]
	if f.Flags&wire.FlagPacked == 0 {
		wire.PutRecord(mem, int(f.N), f.Flags, f.Aux)
		f.Flags, f.Aux, f.off = wire.FlagPacked, 0, -wire.RecordLen
	}
	wire.PutRecord(mem[used:], len(p), flags, imm)
	copy(mem[used+wire.RecordLen:], p)
	f.N = int32(used + wire.RecordSize(len(p)))
	return true
}

// Hold lets frames be staged without being posted, until there are Batch of them, or LetGo.
func (q *Queue[H, O]) Hold() {
	q.data.held = true
	q.bell.grow(Batch)
}

// LetGo undoes Hold.
func (q *Queue[H, O]) LetGo() { q.data.held = false }

// Held reports whether staged frames wait for more.
func (q *Queue[H, O]) Held() bool { return q.data.held }

// Roomy reports once whether there is room for several frames again.
func (q *Queue[H, O]) Roomy() bool {
	roomy := q.data.roomy
	q.data.roomy = false
	return roomy
}
