package pace

const (
	SilentBeats = 3 // beats without a completion after which the canary is asked
	StuckBeats  = 6 // beats for its reply: seconds in which the process has run
)

// Silence decides when a CQ is stuck.
type Silence struct {
	seen   uint64 // completions
	silent int    // beats without any
	asked  int    // beats since the canary was asked; 0: it was not
}

// Beat counts a beat. handled is how many completions there have been; used reports whether any may come.
func (s *Silence) Beat(handled uint64, used bool) Verdict {
	if !used || handled != s.seen {
		*s = Silence{seen: handled}
		return Wait
	}
	if s.asked > 0 {
		if s.asked++; s.asked > StuckBeats {
			return Stuck
		}
		return Wait
	}
	if s.silent++; s.silent < SilentBeats {
		return Wait
	}
	s.asked = 1
	return Ask
}
