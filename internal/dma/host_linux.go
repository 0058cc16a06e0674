package dma

import (
	"os"
	"strconv"
	"strings"
)

func onlineNodes() string {
	online, _ := os.ReadFile("/sys/devices/system/node/online")
	return strings.TrimSpace(string(online))
}

// freeHugePages returns the number of huge pages that are neither used nor promised, -1 if unknown.
func freeHugePages() int {
	read := func(name string) (int, error) {
		s, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/" + name)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(s)))
	}
	free, err := read("free_hugepages")
	if err != nil {
		return -1
	}
	promised, err := read("resv_hugepages")
	if err != nil {
		return -1
	}
	return max(free-promised, 0)
}
