package sendq

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// part is the place of a data frame in its message.
type part uint8

const (
	noPart part = iota // no data, or its message was taken back
	some               // another frame of the message follows
	last               // the last frame of its message, or the only one
)

func partOf(flags uint8) part {
	switch {
	case flags&wire.FlagCancel != 0:
		return noPart
	case flags&wire.FlagMore != 0:
		return some
	}
	return last
}

// Lost counts data that was accepted and is not in the peer's memory. A message is accepted with its last frame.
type Lost struct {
	Frames int
	Bytes  int64 // of payload

	frames int // of a message whose last frame has not come
	bytes  int64
}

// add adds a frame with n bytes. Frames come in the order in which they were staged.
func (l *Lost) add(n int32, p part) {
	if p != noPart {
		l.frames++
		l.bytes += int64(n)
	}
	if p == last {
		l.Frames += l.frames
		l.Bytes += l.bytes
	}
	if p != some {
		l.frames, l.bytes = 0, 0
	}
}
