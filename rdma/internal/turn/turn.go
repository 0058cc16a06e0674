package turn

import "sync/atomic"

// Turn lets one goroutine at a time do something, or a few. The others wait, in the order in which they came.
type Turn struct {
	most  int32
	users atomic.Int32  // the goroutines that have a turn, and those that wait for one
	next  chan struct{} // has a token for each turn that was handed to one that waits
}

// Init prepares a turn, which most goroutines may have at a time.
func (t *Turn) Init(most int) { t.most, t.next = int32(most), make(chan struct{}, most) }

// Enter takes a turn. The caller returns it with Leave.
func (t *Turn) Enter(b Bound) error {
	if err := b.Expired(); err != nil {
		return err
	}
	if t.TryEnter() {
		return nil
	}
	return t.wait(b)
}

// TryEnter is Enter, and reports false if it would have to wait.
func (t *Turn) TryEnter() bool {
	for {
		n := t.users.Load()
		if n >= t.most {
			return false
		}
		if t.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Take is Enter without a bound, so that there is no error.
func (t *Turn) Take() { _ = t.Enter(Bound{}) }

func (t *Turn) wait(b Bound) error {
	if b.Now {
		return ErrWouldWait
	}
	if t.users.Add(1) <= t.most {
		return nil
	}
	err := b.Wait(t.next)
	if err == nil {
		return nil
	}
	for n := t.users.Load(); n > t.most; n = t.users.Load() {
		if t.users.CompareAndSwap(n, n-1) {
			return err
		}
	}
	<-t.next // there is a turn for each that is left, so this one was handed one
	t.Leave()
	return err
}

// Leave returns a turn.
func (t *Turn) Leave() {
	if t.users.Add(-1) >= t.most {
		t.next <- struct{}{} // has room for the turn of each that has one
	}
}
