echo "@version@" > version.txt
