package main

import _ "github.com/pureverbs/pureverbs/internal/abi"
