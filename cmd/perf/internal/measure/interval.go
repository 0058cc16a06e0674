package measure

// Interval is the traffic of a part of a run.
type Interval struct {
	Seconds           float64 // its length
	Messages          uint64
	BitsPerSecond     float64
	MessagesPerSecond float64
	Rail              string // which of several did it; empty: all there is
}

// NewInterval returns what messages of a size come to in that many seconds.
func NewInterval(size, messages uint64, seconds float64) Interval {
	i := Interval{Seconds: seconds, Messages: messages}
	if seconds > 0 {
		i.MessagesPerSecond = float64(messages) / seconds
		i.BitsPerSecond = i.MessagesPerSecond * float64(size) * 8
	}
	return i
}
