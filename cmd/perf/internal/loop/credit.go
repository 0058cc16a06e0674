package loop

import (
	"fmt"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
)

// Credits keep an end from sending more messages than its peer has receives, for a peer of perftest on iWARP: there a
// message that finds no receive ends the connection. An end that receives writes to the peer how many messages it has
// received and posted receives for again. An end that sends is at most Depth messages ahead of what the peer has
// written. They are for one Run.
type Credits struct {
	CQ    Completions // of what this end posts; its Poll does not sleep
	Depth uint64      // receives that an end posts before the first message
	Links []Credit    // in the order of Bandwidth.Links

	b     *Bandwidth
	each  []creditor
	sends Completions // those of Bandwidth; nil: this end only receives
	recvs Completions
	wcs   [PollBatch]ibv.WC
}

// Credit has the words of a link's credits, of 4 bytes each. The adapters read and write them.
type Credit struct {
	Own    []byte         // what is written to the peer
	SGE    ibv.SGE        // the same
	Remote ibv.RemoteAddr // where the peer wants it
	Peers  []byte         // what the peer writes
}

// creditID marks the completions of credits. The lower bits are the index of the link.
const creditID = 1 << 63

// A CreditError is a link that failed when this end had written a credit: the peer may have refused the write.
type CreditError struct {
	Messages uint64         // that the credit counts
	Remote   ibv.RemoteAddr // where it was written to, as the peer advertised
	Err      error
}

// Error returns one line.
func (e *CreditError) Error() string {
	return fmt.Sprintf("%v, after a credit for %d messages, which this end wrote to address %#x with key %#x, as the "+
		"peer advertised", e.Err, e.Messages, e.Remote.Addr, e.Remote.RKey)
}

// Unwrap returns the error of the link.
func (e *CreditError) Unwrap() error { return e.Err }

// account counts the credits of one link in both directions.
type account struct {
	depth uint64 // receives of an end
	told  uint64 // messages that the last credit for the peer counts
	open  bool   // the write of that credit has not completed
	heard uint64 // messages that the peer's last credit counts
}

// due reports whether a credit is to be written when got of all messages have come. A third of the receives is
// perftest's interval too. After its last message the peer does not wait for a credit.
func (a *account) due(got, all uint64) bool { return got-a.told >= max(a.depth/3, 1) && got < all }

// hear takes the word that the peer writes, the lower bits of its count. One that counts messages that were not posted
// is left over from another run.
func (a *account) hear(word uint32, posted uint64) {
	if more := uint64(word - uint32(a.heard)); more <= posted-a.heard {
		a.heard += more
	}
}

// limit returns the number of messages from which on the credits do not admit another list of so many.
func (a *account) limit(list uint64) uint64 { return max(a.heard+a.depth+1, list) - list }

// creditor is the account of a link with its memory.
type creditor struct {
	account
	link       *Link
	own, peers *atomic.Uint32
	wr         []ibv.SendWR // one
}

// run is Bandwidth.Run.
func (c *Credits) run(b *Bandwidth) error {
	c.b, c.sends, c.recvs = b, b.Sends, b.Recvs
	for i, l := range b.Links {
		m := c.Links[i]
		e := creditor{account: account{depth: c.Depth}, link: l, own: word(m.Own), peers: word(m.Peers),
			wr: []ibv.SendWR{{ID: creditID | uint64(i), Opcode: ibv.OpWrite, Flags: ibv.Signaled,
				SGEs: []ibv.SGE{m.SGE}, Remote: m.Remote}}}
		e.peers.Store(0)
		c.each = append(c.each, e)
	}
	c.admit()
	if b.Sends != nil {
		b.Sends = admitted{c}
	}
	if b.Recvs != nil {
		b.Recvs = credited{c}
	}
	if err := b.move(); err != nil {
		return err
	}
	// The peer begins the next size without credits. One of this size must not come later.
	b.Recvs, b.Sends, c.sends = nil, admitted{c}, c.CQ
	return b.await(c.open)
}

// open reports whether the write of a credit has not completed.
func (c *Credits) open() bool {
	for i := range c.each {
		if c.each[i].open {
			return true
		}
	}
	return false
}

// admit sets how far the links may send.
func (c *Credits) admit() {
	for i := range c.each {
		e := &c.each[i]
		e.hear(e.peers.Load(), e.link.posted)
		e.link.limit = min(e.link.Messages, e.account.limit(uint64(len(e.link.WRs))))
	}
}

// awaits reports whether a completion is to come. There is none while all links wait for credits.
func (c *Credits) awaits() bool {
	for i := range c.each {
		if l := c.each[i].link; c.each[i].open || c.b.open(l) || l.posted == l.Messages && l.done < l.posted {
			return true
		}
	}
	return false
}

// give writes the credits that are due. All receives that were used up are posted again.
func (c *Credits) give() error {
	for i := range c.each {
		e := &c.each[i]
		if !e.due(e.link.recvDone, e.link.Messages) {
			continue
		}
		if e.open && c.sends == nil {
			if n, err := c.CQ.Poll(c.wcs[:]); err != nil {
				return err
			} else if _, err = c.settle(c.wcs[:n]); err != nil {
				return err
			}
		}
		if e.open {
			continue // the one that follows counts more messages
		}
		e.told, e.open = e.link.recvDone, true
		e.own.Store(uint32(e.told))
		if _, err := e.link.Send.PostSend(e.wr); err != nil {
			return e.error(fmt.Errorf("%s: %w", e.link.Name, err))
		}
	}
	return nil
}

// settle takes the completions of credits out of a list, and returns how many others are left at its beginning.
func (c *Credits) settle(wcs []ibv.WC) (int, error) {
	n := 0
	for i := range wcs {
		if wcs[i].ID&creditID == 0 {
			wcs[n] = wcs[i]
			n++
			continue
		}
		e := &c.each[wcs[i].ID&^creditID]
		if e.open = false; wcs[i].Status != ibv.WCSuccess {
			return 0, e.error(failed(e.link, "credit for message", e.told, &wcs[i]))
		}
	}
	return n, nil
}

func (e *creditor) error(err error) error { return &CreditError{e.told, e.wr[0].Remote, err} }

// admitted are the completions of messages that need credits.
type admitted struct{ *Credits }

// Poll returns completions of messages.
func (a admitted) Poll(wcs []ibv.WC) (int, error) {
	a.admit()
	from := a.sends
	if !a.awaits() {
		from = a.CQ // credits wake nobody that sleeps
	}
	n, err := from.Poll(wcs)
	if err != nil {
		return 0, err
	}
	return a.settle(wcs[:n])
}

// credited are the completions of messages for which the peer needs credits.
type credited struct{ *Credits }

// Poll returns completions of receives.
func (r credited) Poll(wcs []ibv.WC) (int, error) {
	if err := r.give(); err != nil {
		return 0, err
	}
	n, err := r.recvs.Poll(wcs)
	for i := range wcs[:n] {
		if wcs[i].Status == ibv.WCSuccess {
			continue
		}
		// On iWARP the write of a credit succeeds before the peer's adapter refuses it and ends the connection. That it
		// did not is known when more messages have come than without credits.
		e := &r.each[wcs[i].ID>>ordinalBits]
		if e.told > 0 && e.link.recvDone < e.depth {
			return 0, e.error(failed(e.link, "receive", e.link.recvDone+1, &wcs[i]))
		}
	}
	return n, err
}
