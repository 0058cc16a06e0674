package steps

// What follows is compiled by Go and by Compile. TestSample compares what the functions return.

type pair struct{ first, second int }

func (p pair) sum() int { return p.first + p.second }

func swapped(p pair) pair { return pair{second: p.first, first: p.second} }

const least = 3

func sampleLoops(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		if i == 2 {
			continue
		}
		if i > 7 {
			break
		}
		sum += i
	}
	for i := range n {
		for range i {
			sum++
		}
	}
	return sum
}

func sampleSwitch(n int) (out int) {
	switch m := n % 4; m {
	case 0, 1:
		out = 10
	case 2:
		for {
			out++
			if out > 4 {
				break
			}
		}
	default:
		out = -1
	}
	switch {
	case n > least && n&1 == 1, n == 2:
		out += 100
	case n == 0 || !(n < 5):
		out -= 1
	}
	return
}

func sampleStructs(n int) int {
	p := pair{n, 2}
	q := swapped(p)
	q.first = min(q.first, n, 7)
	if p == q {
		return 77
	}
	return q.sum()*10 + max(p.first, q.second) - p.sum()
}

// samplePointers has a function assign to its caller's variable, and to its own parameter.
func samplePointers(n int) int {
	left := n
	down := func(by int) bool {
		by++
		return lower(&left, by)
	}
	times := 0
	for down(times) {
		times++
	}
	return times*100 + left
}

func lower(n *int, by int) bool {
	if *n < by {
		return false
	}
	*n -= by
	return true
}

func sampleResults(n int) int {
	a, b := both(n)
	b, a = a, b
	if c, ok := both(a); ok > 2 {
		a += c
	}
	return a<<4 | b
}

func both(n int) (int, int) {
	if n > 3 {
		return n - 1, n ^ 1
	}
	return n, n &^ 1
}

func sampleApply(n int) int { return apply(twice, apply(func(m int) int { return m + n }, 1)) }

func twice(n int) int { return 2 * n }

func apply(f func(int) int, n int) int { return f(n) }
