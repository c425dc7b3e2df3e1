bad=0
check() {
	if [ "$(cat "$2" 2>/dev/null)" = "$3" ]; then echo "PASSED test_outputs.py::$1"
	else echo "FAILED test_outputs.py::$1 - $2 does not hold what it must"; bad=1; fi
}
