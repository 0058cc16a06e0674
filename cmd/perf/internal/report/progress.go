package report

import (
	"fmt"
	"io"
	"strings"
)

// Progress is a line on a terminal that is written over and over.
type Progress struct {
	W     io.Writer
	width int
}

// Update shows how far a size is.
func (p *Progress) Update(size, done, want uint64) {
	s := fmt.Sprintf("%d bytes: %d messages", size, done)
	if want > 0 {
		s = fmt.Sprintf("%d bytes: %d of %d messages, %d %%", size, done, want, done*100/want)
	}
	pad := max(p.width-len(s), 0)
	p.width = len(s)
	fmt.Fprintf(p.W, "\r%s%s", s, strings.Repeat(" ", pad))
}

// Clear removes the line.
func (p *Progress) Clear() {
	if p.width > 0 {
		fmt.Fprintf(p.W, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
