cp /opt/made.txt copy.txt
