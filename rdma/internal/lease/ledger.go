package lease

// Ledger counts what an owner has lent against its limits. Memory counts until it has been taken from the peer.
type Ledger struct {
	Open   tally // leases; for reading only
	most   int64 // bytes
	count  int
	ending tally         // of them, those that are being taken from the peer
	freed  chan struct{} // closed when one of them has ended; nil: no goroutine waits
}

// tally is a number of leases.
type tally struct {
	N     int
	Bytes int64
}

func (t *tally) add(n int, bytes int64) { t.N, t.Bytes = t.N+n, t.Bytes+bytes }

// Limit is a limit of a Ledger.
type Limit uint8

const (
	None Limit = iota
	Bytes
	Count
)

// NewLedger returns a Ledger of at most count leases of most bytes together.
func NewLedger(most int64, count int) Ledger { return Ledger{most: max(most, 0), count: count} }

// Add counts a lease of n bytes, unless that exceeds a limit, which it returns.
func (l *Ledger) Add(n int64) Limit {
	limit := l.over(n, tally{})
	if limit == None {
		l.Open.add(1, n)
	}
	return limit
}

// over returns the limit that another lease exceeds when some have ended.
func (l *Ledger) over(n int64, ended tally) Limit {
	switch {
	case n > l.most-(l.Open.Bytes-ended.Bytes):
		return Bytes
	case l.Open.N-ended.N >= l.count:
		return Count
	}
	return None
}

// End begins to take a lease of n bytes from the peer.
func (l *Ledger) End(n int64) { l.ending.add(1, n) }

// Ended takes a lease out of the count, for which there was an End.
func (l *Ledger) Ended(n int64) {
	l.Open.add(-1, -n)
	l.ending.add(-1, -n)
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
}

// Soon returns a channel that is closed when the next lease has ended. It is nil if a lease of n bytes has no room even
// when all that are ending have ended.
func (l *Ledger) Soon(n int64) <-chan struct{} {
	if l.ending.N == 0 || l.over(n, l.ending) != None {
		return nil
	}
	if l.freed == nil {
		l.freed = make(chan struct{})
	}
	return l.freed
}
