package link

import (
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// frame is a data frame that was received.
type frame struct {
	b     *Block
	off   int32 // of what is left of the payload
	n     int32 // bytes left from off
	aux   uint32
	flags uint8
}

// Bytes is the rest of the payload.
func (f *frame) Bytes() []byte { return f.b.Payload()[f.off : f.off+f.n : f.off+f.n] }

// inbox has the data frames that were received and not read.
type inbox struct {
	fifo.Queue[frame]
	readable bool // the reader is to be woken when the poller is done with what has come
}

// Push appends a frame.
func (in *inbox) Push(f frame) {
	in.Queue.Push(f)
	in.readable = true
}

// wake reports whether the reader is to be woken, once.
func (in *inbox) wake() bool {
	wake := in.readable
	in.readable = false
	return wake
}

// dialog decides whether a reader polls while it waits.
type dialog struct {
	patience progress.Patience
	sent     uint32 // frames that were sent when the reader waited last
}

// next returns the reader's patience if each end waits for the other's next frame, or nil. sent is how many frames
// were sent.
func (d *dialog) next(sent uint32) *progress.Patience {
	if sent == d.sent {
		return nil
	}
	d.sent = sent
	return &d.patience
}
