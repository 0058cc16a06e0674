package hostfacts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxCPUs is more CPUs than Linux can be built for.
const MaxCPUs = 1 << 14

// ParseCPUs reads a list of CPUs as the kernel writes it, 0-3,8. The result is in order, each CPU once.
func ParseCPUs(s string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseUint(first, 10, 31)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(last, 10, 31)
		}
		if err != nil || b < a || b >= MaxCPUs {
			return nil, fmt.Errorf("%.40q is not a list of CPUs, such as 2-5,8", s)
		}
		for ; a <= b; a++ {
			list = append(list, int(a))
		}
		if len(list) > MaxCPUs {
			return nil, fmt.Errorf("%.40q... names more than %d CPUs", s, MaxCPUs)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// FormatCPUs writes a list of CPUs as the kernel does.
func FormatCPUs(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return b.String()
}

// NodeCPUs returns the CPUs of a NUMA node.
func (h Host) NodeCPUs(node int) ([]int, error) {
	at := []string{"devices", "system", "node", "node" + strconv.Itoa(node), "cpulist"}
	text, err := h.sys().Attr(at...)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, nil // memory alone
	}
	list, err := ParseCPUs(text)
	if err != nil {
		return nil, malformed(h.SysPath(at...), text, "a list of CPUs, such as 2-5,8").Err
	}
	return list, nil
}
