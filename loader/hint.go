package loader

import (
	"fmt"
	"strings"
)

// nodes are the symbol versions of libibverbs, by the rdma-core release that
// brought them. Those that are not listed are v15 or older.
var nodes = map[string]string{
	"IBVERBS_1.5": "v20", "IBVERBS_1.6": "v24", "IBVERBS_1.7": "v25", "IBVERBS_1.8": "v28", "IBVERBS_1.9": "v30",
	"IBVERBS_1.10": "v31", "IBVERBS_1.11": "v32", "IBVERBS_1.12": "v34", "IBVERBS_1.13": "v35", "IBVERBS_1.14": "v36",
	"IBVERBS_1.15": "v59", "IBVERBS_1.16": "v62", "IBVERBS_1.17": "v64",
}

// private is the prefix of the symbol version that binds providers, librdmacm and
// libmlx5 to a libibverbs of their own build; the provider ABI's number follows.
const private = "IBVERBS_PRIVATE_"

// versionHint says what helps where the linker misses a symbol version, "" if
// that is not what it misses. Its words are glibc's: "FILE: version `V' not found
// (required by USER)" and "undefined symbol: S, version V"; path is the file that
// was to be opened.
func versionHint(path, reason string) string {
	var file, version, user string
	if before, rest, ok := strings.Cut(reason, "version `"); ok {
		version, rest, ok = strings.Cut(rest, "' not found (required by ")
		if !ok {
			return ""
		}
		file = strings.TrimSuffix(strings.TrimSpace(before), ":")
		user = strings.TrimSuffix(rest, ")")
	} else if _, rest, ok := strings.Cut(reason, "undefined symbol: "); ok {
		var symbol string
		symbol, version, _ = strings.Cut(rest, ", version ")
		if release := since(IBVerbs, symbol); release != "" {
			return fmt.Sprintf("the libibverbs that is loaded lacks %s, which came with rdma-core %s: install one that is as new as %s",
				symbol, release, path)
		}
		file, user = "the library that should have "+symbol, path
	} else {
		return ""
	}
	if file == "" {
		file = path
	}
	switch release, known := nodes[version]; {
	case strings.HasPrefix(version, "GLIBC_"):
		return fmt.Sprintf("%s was built for a newer C library (%s) than this host's: take one of this host's distribution", user, version)
	case strings.HasPrefix(version, private):
		return fmt.Sprintf("%s is of %s, and %s is not: take both from the same package", user,
			providerRelease(strings.TrimPrefix(version, private)), file)
	case known:
		return fmt.Sprintf("%s is too old for %s: %s came with rdma-core %s, install that or a later one", file, user, version, release)
	case version != "":
		return fmt.Sprintf("%s is too old for %s, which needs its %s: take both from the same release", file, user, version)
	}
	return ""
}

// providerReleases are the rdma-core releases by their provider ABI.
var providerReleases = map[string]string{
	"15": "v15", "16": "v16", "17": "v17", "18": "v18", "19": "v19", "20": "v20", "21": "v21", "22": "v22 to v24", "25": "v25 to v32",
	"33": "v33", "34": "v34 to v56", "57": "v57 to v58", "59": "v59 to v63", "64": "v64", "65": "v65",
}

// providerRelease describes a provider ABI: "rdma-core v34 to v56 (provider ABI 34)".
func providerRelease(abi string) string {
	switch r := providerReleases[abi]; {
	case r != "":
		return fmt.Sprintf("rdma-core %s (provider ABI %s)", r, abi)
	case abi == "2":
		return "a release before rdma-core, or MLNX_OFED before 5.0 (provider ABI 2)"
	default:
		return "provider ABI " + abi
	}
}
