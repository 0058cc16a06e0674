package measure

import "sync/atomic"

// Count is how many messages an end has moved: those that it has sent, and those that arrived. An end that only
// receives has sent none.
type Count struct{ Sent, Got uint64 }

// Total is both directions.
func (c Count) Total() uint64 { return c.Sent + c.Got }

// Minus returns what was moved since o.
func (c Count) Minus(o Count) Count { return Count{c.Sent - o.Sent, c.Got - o.Got} }

// Plus returns the sum of two counts.
func (c Count) Plus(o Count) Count { return Count{c.Sent + o.Sent, c.Got + o.Got} }

// Counter is a Count for others to read while it rises.
type Counter struct {
	begun     atomic.Int64
	sent, got atomic.Uint64
}

// Begin notes the tick at which messages began to move.
func (c *Counter) Begin(at int64) { c.begun.Store(at) }

// Begun returns that tick, 0 before.
func (c *Counter) Begun() int64 { return c.begun.Load() }

// Reset starts over.
func (c *Counter) Reset() {
	c.begun.Store(0)
	c.Store(Count{})
}

// Store sets the count.
func (c *Counter) Store(n Count) {
	c.sent.Store(n.Sent)
	c.got.Store(n.Got)
}

// Load returns the count.
func (c *Counter) Load() Count { return Count{c.sent.Load(), c.got.Load()} }

// Flow has the messages that moved in one direction, between two ticks.
type Flow struct {
	Messages uint64 // all
	Timed    uint64 // those whose time is known: they moved between From and To
	From, To int64
}

// FlowOf returns the flow of messages that all moved between two ticks.
func FlowOf(messages uint64, from, to int64) Flow { return Flow{messages, messages, from, to} }

// plus returns two flows as one, from the first one's beginning to the last one's end.
func (f Flow) plus(o Flow) Flow {
	return Flow{f.Messages + o.Messages, f.Timed + o.Timed, min(f.From, o.From), max(f.To, o.To)}
}

// bandwidth returns the figures of messages of a size. A tick has perTick seconds.
func (f Flow) bandwidth(size uint64, perTick float64) *Bandwidth {
	bw := &Bandwidth{Messages: f.Messages}
	if secs := float64(f.To-f.From) * perTick; secs > 0 {
		bw.MessagesPerSecond = float64(f.Timed) / secs
		bw.BitsPerSecond = bw.MessagesPerSecond * float64(size) * 8
	}
	return bw
}
