package hostfacts

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// reader reads attributes of sysfs, and records those that it cannot read.
type reader struct {
	sysfs.Root
	missing []Missing
}

func (h Host) reader() *reader { return &reader{Root: h.sys()} }

// attr reads an attribute without blanks around it; empty if it is not known.
func (r *reader) attr(elem ...string) string {
	s, _ := r.read(elem...)
	return strings.TrimSpace(s)
}

// read reads an attribute with its blanks. ok is false if it is not known.
func (r *reader) read(elem ...string) (s string, ok bool) {
	s, err := r.Attr(elem...)
	if err != nil && !absent(err) {
		r.missing = append(r.missing, miss(r.path(elem), err))
	}
	return s, err == nil
}

// number reads an attribute that holds one number from 0 to most, in any base that has a prefix; Unknown if it is not
// known.
func (r *reader) number(most int64, elem ...string) int64 {
	text, ok := r.read(elem...)
	if !ok {
		return Unknown
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
	if err != nil || n < 0 || n > most {
		if n != Unknown { // as a NUMA node that the firmware does not report
			r.malformed(text, "a number from 0 to "+strconv.FormatInt(most, 10), elem...)
		}
		return Unknown
	}
	return n
}

// pciID returns the vendor and device ID of a PCI function, "15b3:1021"; empty if they are not known.
func (r *reader) pciID(dir ...string) string {
	at := func(name string) int64 { return r.number(math.MaxUint16, append(slices.Clone(dir), name)...) }
	if vendor, device := at("vendor"), at("device"); vendor >= 0 && device >= 0 {
		return fmt.Sprintf("%04x:%04x", vendor, device)
	}
	return ""
}

// names lists a directory; empty if it is not known.
func (r *reader) names(elem ...string) []string {
	names, err := r.Names(elem...)
	if err != nil && !absent(err) {
		r.missing = append(r.missing, miss(r.path(elem), err))
	}
	return names
}

func (r *reader) malformed(text, want string, elem ...string) {
	r.missing = append(r.missing, malformed(r.path(elem), text, want))
}

func (r *reader) path(elem []string) string { return r.String() + "/" + strings.Join(elem, "/") }
