package plot

import (
	"math"
	"strconv"
)

// A Scale is the kind of an axis.
type Scale int

const (
	Linear    Scale = iota // from 0
	Log                    // decades
	Binary                 // powers of two, as sizes are
	Quantiles              // of 1/(1-p), so that each further nine is as wide as the one before
)

// axis maps values to positions: at from + (f(v)-low) * length.
type axis struct {
	scale     Scale
	low, high float64 // after f
	from      float64 // pixels
	length    float64 // below 0: upwards
}

type tick struct {
	At    float64
	Label string
}

// newAxis fits an axis to values, which Fits reports to be good.
func newAxis(s Scale, values []float64, from, length float64) axis {
	a := axis{scale: s, low: math.Inf(1), high: math.Inf(-1), from: from, length: length}
	for _, v := range values {
		a.low, a.high = min(a.low, a.f(v)), max(a.high, a.f(v))
	}
	switch {
	case s == Linear:
		a.low = 0
		if a.high <= 0 {
			a.high = 1
		}
		a.high *= 1.05
	case s == Log:
		a.low, a.high = math.Floor(a.low+1e-9), math.Ceil(a.high-1e-9)
	case s == Quantiles:
		a.low = 0
	}
	if a.high <= a.low {
		a.low, a.high = a.low-1, a.high+1
	}
	return a
}

// Fits reports whether an axis can show a value.
func (s Scale) Fits(v float64) bool {
	return v < 1e18 && (v > 1e-18 || s == Linear && v >= 0)
}

func (a *axis) f(v float64) float64 {
	switch a.scale {
	case Log, Quantiles:
		return math.Log10(v)
	case Binary:
		return math.Log2(v)
	}
	return v
}

func (a *axis) at(v float64) float64 {
	return round(a.from + a.length*(a.f(v)-a.low)/(a.high-a.low))
}

func round(v float64) float64 { return math.Round(10*v) / 10 }

// ticks returns at most about ten places that are worth a label.
func (a *axis) ticks() []tick {
	var out []tick
	add := func(v float64, label string) {
		if f := a.f(v); f >= a.low-1e-9 && f <= a.high+1e-9 {
			out = append(out, tick{a.at(v), label})
		}
	}
	switch a.scale {
	case Linear:
		step := math.Pow(10, math.Floor(math.Log10(a.high/4)))
		for _, m := range []float64{5, 2} {
			if a.high/(m*step) >= 4 {
				step *= m
				break
			}
		}
		for i := 0.0; i*step <= a.high; i++ {
			add(i*step, Number(i*step))
		}
	case Log:
		minor := []float64{1, 2, 5}
		if a.high-a.low > 2 {
			minor = minor[:1]
		}
		every := math.Ceil((a.high - a.low) / 10)
		for e := a.low; e <= a.high; e += every {
			for _, m := range minor {
				v := m * math.Pow(10, e)
				add(v, Number(v))
			}
		}
	case Binary:
		every := math.Ceil((a.high - a.low + 1) / 12)
		for e := math.Ceil(a.low); e <= a.high; e += every {
			v := math.Pow(2, e)
			add(v, Bytes(v))
		}
	case Quantiles:
		add(1, "0 %")
		add(2, "50 %")
		for e := 1.0; e <= min(a.high, 12); e++ {
			v := math.Pow(10, e)
			add(v, strconv.FormatFloat(100-100/v, 'f', max(0, int(e)-2), 64)+" %")
		}
	}
	return out
}

// Number prints a figure with four digits, less the zeros at its end.
func Number(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if a := math.Abs(v); a != 0 && (a >= 1e7 || a < 1e-4) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Bytes prints a size, as 64, 4K or 8M.
func Bytes(v float64) string {
	for _, u := range []string{"", "K", "M"} {
		if v < 1024 {
			return strconv.FormatFloat(v, 'g', 4, 64) + u
		}
		v /= 1024
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + "G"
}
