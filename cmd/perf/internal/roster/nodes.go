package roster

import (
	"fmt"
	"strconv"
	"strings"
)

// Most bounds the hosts of a list, and of a mesh.
const Most = 16384

// longestName bounds a name, as DNS does. A list is bounded by what it expands to: a short one may have long names.
const longestName = 253

// ExpandNodes expands a node list of Slurm, such as rack1-[01-03,7],login.
func ExpandNodes(list string) (names []string, err error) {
	bad := func(why string) ([]string, error) { return nil, fmt.Errorf("node list %.200q: %s", list, why) }
	depth, start := 0, 0
	var items []string
	for i, r := range list + "," {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			items = append(items, list[start:i])
			start = i + 1
		}
		if depth < 0 || depth > 1 {
			return bad("brackets do not match")
		}
	}
	if depth != 0 {
		return bad("brackets do not match")
	}
	for _, item := range items {
		some := []string{""}
		for item != "" {
			before, rest, open := strings.Cut(item, "[")
			values := []string{""}
			if open {
				var inside string
				inside, item, _ = strings.Cut(rest, "]")
				if values, err = expandRanges(inside); err != nil {
					return bad(err.Error())
				}
			} else {
				item = ""
			}
			if len(some)*len(values) > Most {
				return bad(fmt.Sprintf("more than %d hosts", Most))
			}
			var next []string
			for _, s := range some {
				for _, v := range values {
					if n := len(s) + len(before) + len(v); n > longestName {
						return bad(fmt.Sprintf("a name of %d bytes; allowed: %d", n, longestName))
					}
					next = append(next, s+before+v)
				}
			}
			some = next
		}
		if some[0] == "" {
			return bad("an empty name")
		}
		if names = append(names, some...); len(names) > Most {
			return bad(fmt.Sprintf("more than %d hosts", Most))
		}
	}
	return names, nil
}

// expandRanges expands 01-03,7 to 01, 02, 03 and 7.
func expandRanges(text string) (values []string, err error) {
	for r := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(r, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 32)
		b, err2 := strconv.ParseUint(to, 10, 32)
		if err1 != nil || err2 != nil || b < a || b-a >= Most || len(values) > Most ||
			len(from) > longestName {
			return nil, fmt.Errorf("range %.60q", r)
		}
		for n := a; n <= b; n++ {
			values = append(values, fmt.Sprintf("%0*d", len(from), n))
		}
	}
	return values, nil
}
