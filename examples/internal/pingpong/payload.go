package pingpong

// The stock tools check one byte a page: the first, which must be 0. What their
// -c sends has 0 there and one of these everywhere else.
const (
	stockPage     = 4096
	stockFill     = 0x7b
	stockFillZero = 0
)

// patternByte is byte i of message n as we send it with -c: different from byte
// to byte and from message to message, and right for a stock peer that checks.
func patternByte(n, i int) byte {
	if i%stockPage == 0 {
		return 0
	}
	return byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
}

// fill makes b message n.
func fill(b []byte, n int, check bool) {
	for i := range b {
		if check {
			b[i] = patternByte(n, i)
		} else {
			b[i] = stockFill
		}
	}
}

// verify checks every byte of b, which is message n of a peer with -c: one of
// ours, or a stock one.
func verify(b []byte, n int) error {
	i := firstDifference(b, func(i int) byte { return patternByte(n, i) })
	if i < 0 {
		return nil
	}
	for _, f := range []byte{stockFill, stockFillZero} {
		if firstDifference(b, func(i int) byte {
			if i%stockPage == 0 {
				return 0
			}
			return f
		}) < 0 {
			return nil
		}
	}
	return &PayloadError{Message: n, Offset: i, Got: b[i], Want: patternByte(n, i)}
}

func firstDifference(b []byte, want func(i int) byte) int {
	for i := range b {
		if b[i] != want(i) {
			return i
		}
	}
	return -1
}
