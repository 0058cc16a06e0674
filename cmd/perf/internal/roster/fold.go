package roster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Fold writes names as Slurm does: node[1-3,7],login. ExpandNodes reads it.
func Fold(names []string) string {
	type group struct {
		before, after string
		width         int
		numbers       []uint64
	}
	var groups []*group
	var plain []string
	for _, name := range names {
		before, digits, after := number(name)
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			plain = append(plain, name)
			continue
		}
		// Of numbers that begin with 0; the others have no zeros.
		width := lists.When(len(digits) > 1 && digits[0] == '0', len(digits))
		i := slices.IndexFunc(groups, func(g *group) bool {
			fits := g.width == width || g.width == len(digits) && width == 0
			return g.before == before && g.after == after && fits
		})
		if i < 0 {
			groups, i = append(groups, &group{before: before, after: after, width: width}), len(groups)
		}
		groups[i].numbers = append(groups[i].numbers, n)
	}
	var items []string
	for _, g := range groups {
		slices.Sort(g.numbers)
		var parts []string
		for i := 0; i < len(g.numbers); {
			k := i
			for k+1 < len(g.numbers) && g.numbers[k+1] == g.numbers[k]+1 {
				k++
			}
			parts = append(parts, fmt.Sprintf("%0*d", g.width, g.numbers[i])+
				lists.When(k > i, fmt.Sprintf("-%0*d", g.width, g.numbers[k])))
			i = k + 1
		}
		list := strings.Join(parts, ",")
		if len(g.numbers) > 1 {
			list = "[" + list + "]"
		}
		items = append(items, g.before+list+g.after)
	}
	return strings.Join(append(items, plain...), ",")
}

// Compare orders names with the numbers in them: node2 is before node10.
func Compare(a, b string) int {
	aBefore, aDigits, aAfter := number(a)
	bBefore, bDigits, bAfter := number(b)
	m, err := strconv.ParseUint(aDigits, 10, 32)
	n, err2 := strconv.ParseUint(bDigits, 10, 32)
	if err != nil || err2 != nil {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(aBefore, bBefore), cmp.Compare(m, n), cmp.Compare(aAfter, bAfter), cmp.Compare(a, b))
}

// number splits a name at the last number in its first label.
func number(name string) (before, digits, after string) {
	label, _, _ := strings.Cut(name, ".")
	end := len(label)
	for end > 0 && (name[end-1] < '0' || name[end-1] > '9') {
		end--
	}
	begin := end
	for begin > 0 && name[begin-1] >= '0' && name[begin-1] <= '9' {
		begin--
	}
	return name[:begin], name[begin:end], name[end:]
}
