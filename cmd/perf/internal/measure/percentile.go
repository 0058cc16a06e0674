package measure

import "encoding/json"

// Percentile is a percentile in nanoseconds, or TooFew. In JSON that is null.
type Percentile float64

// TooFew means that there are too few samples for a percentile: the share of them above it is less than one sample, so
// that it would be the maximum. The median needs 2 samples, and the 99th percentile 100.
const TooFew Percentile = -1

// Known reports whether there is a figure.
func (p Percentile) Known() bool { return p >= 0 }

// MarshalJSON writes a number, or null.
func (p Percentile) MarshalJSON() ([]byte, error) {
	if !p.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(p))
}

// UnmarshalJSON reads a number, or null.
func (p *Percentile) UnmarshalJSON(b []byte) error {
	v := (*float64)(p)
	*v = float64(TooFew)
	return json.Unmarshal(b, v) // leaves it with null
}
