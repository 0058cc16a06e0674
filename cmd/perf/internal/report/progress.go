package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
)

// Progress is a line on a terminal that is written over and over.
type Progress struct {
	W     io.Writer
	width int
}

// Update shows how far a size is.
func (p *Progress) Update(at engine.Progress) {
	s := fmt.Sprintf("%d bytes: %d messages", at.Size, at.Done)
	switch {
	case at.Want > 0:
		s = fmt.Sprintf("%d bytes: %d of %d messages, %d %%", at.Size, at.Done, at.Want, at.Done*100/at.Want)
	case at.Left > 0:
		s += fmt.Sprintf(", %.0f s left", math.Ceil(at.Left.Seconds()))
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
