one() { if [ "$(bash bin/greet.sh $2 2>/dev/null)" = "$3" ]; then echo "$1<-|-|-> PASSED"; else echo "$1<-|-|-> FAILED"; fi; }
one somebody Ada "Hello, Ada!"
one nobody "" "Hello, world!"
