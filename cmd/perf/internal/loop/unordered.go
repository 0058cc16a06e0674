package loop

import "github.com/pureverbs/pureverbs/ibv"

// Unordered makes completions that come in any order look like those of an ordered queue: each is the next one of its
// link. Each message has one.
type Unordered struct {
	Completions
	next []uint64 // by link
}

// NewUnordered returns the completions of n links, for the messages of one size.
func NewUnordered(c Completions, n int) *Unordered { return &Unordered{c, make([]uint64, n)} }

// Poll takes completions.
func (u *Unordered) Poll(wcs []ibv.WC) (int, error) {
	n, err := u.Completions.Poll(wcs)
	for i := range wcs[:n] {
		l := wcs[i].ID >> ordinalBits
		u.next[l]++
		wcs[i].ID = l<<ordinalBits | u.next[l]&ordinalMask
	}
	return n, err
}
